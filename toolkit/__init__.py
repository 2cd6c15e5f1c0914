"""The packages that both stages share: log, imports, exports, answers, statistics, tables and figures."""
