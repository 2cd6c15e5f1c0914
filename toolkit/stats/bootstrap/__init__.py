"""The paired bootstrap of every policy's metrics, and the intervals that replace it where it covers too little."""
