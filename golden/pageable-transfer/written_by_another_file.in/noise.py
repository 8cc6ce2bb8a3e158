def disturb(points):
    points.mul_(2.0)
