"""The live view: ``tacit serve`` shows the runs of a folder in a browser while they train."""
