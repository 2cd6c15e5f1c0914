"""The dashboard, a page for a browser: its charts and its one HTML document."""
