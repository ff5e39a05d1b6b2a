"""Answers and their judges: is what a pipeline, or anything else, answered any good?"""
