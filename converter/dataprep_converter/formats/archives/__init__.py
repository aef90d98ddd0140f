"""Formats that are archives: WebDataset, FileBatch, npz."""
