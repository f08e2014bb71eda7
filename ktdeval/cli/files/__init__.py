"""`ktdeval files`: the files of runs, and the reply cache."""
