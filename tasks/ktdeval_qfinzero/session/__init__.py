"""Trading sessions with the broker as one question of a scoring task: trade some stocks for some
days.
"""
