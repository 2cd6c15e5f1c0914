"""The study of acting on text as it unfolds: DIVER (2026), for any log of checks."""
