"""Foreign files: which there are, how they are opened, and how they name things."""
