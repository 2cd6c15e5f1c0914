"""The page that people open in a browser: its charts, its files, and how they become one document."""
