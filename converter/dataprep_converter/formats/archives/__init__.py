"""Formats whose files are archives: WebDataset, FileBatch and npz."""
