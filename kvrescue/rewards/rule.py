def rule_score(problem, committed, step):
    return 0.5, {}
