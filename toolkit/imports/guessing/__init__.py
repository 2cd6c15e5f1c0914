"""Mappings for tables that nobody described: their columns are recognised by name and contents."""
