"""Services that answer over HTTP, one file each."""
