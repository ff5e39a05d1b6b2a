"""The ``personas`` command: see, check and compare personas, rubrics and teams."""
