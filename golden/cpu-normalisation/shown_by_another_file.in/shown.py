def brightest(images):
    return f"{images.max().item():.4f}"
