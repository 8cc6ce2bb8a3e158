seen = []


def count(index):
    seen.append(index)
