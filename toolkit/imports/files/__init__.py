"""Files of an import: listing, opening, and what their names tell."""
