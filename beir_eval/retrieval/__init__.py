"""The first stage: BM25, built in or by Lucene, and stored runs."""
