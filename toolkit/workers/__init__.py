"""Workers: parts of a job on the processes of a cluster, their results in order, whatever becomes of a worker."""
