"""Published works, replayed: each study's runs, tables and figures."""
