"""From run folders to a folder of pages that show why passages rank where they do."""
