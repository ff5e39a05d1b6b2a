"""RankRAG (arXiv 2407.02485): training examples from a user's data sets, and training with them."""
