def compute_score(source, answer, truth):
    return float(answer == truth)
