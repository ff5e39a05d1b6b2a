"""Reports on run folders: tables beside the paper's, significance, figures."""
