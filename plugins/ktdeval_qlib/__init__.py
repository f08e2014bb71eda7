"""Supervised baselines: the eighteen models of KTD-Fin (section 4.1, Appendix H), trained with pyqlib on the nine style factors."""
