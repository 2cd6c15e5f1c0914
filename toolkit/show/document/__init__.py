"""Findings, tables and figures as documents and folders of files."""
