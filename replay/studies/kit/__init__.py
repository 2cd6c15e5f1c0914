"""What every study of a published work is written with: tables as data, published numbers, gaps, and the report."""
