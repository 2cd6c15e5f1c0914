"""The rules of sampling beside stops: orders and selects, and how policies name them all."""
