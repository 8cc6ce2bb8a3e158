from tools.meters import AverageMeter


def train(model, batches, optimizer):
    losses = AverageMeter()
    for points in batches:
        loss = (model(points) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.detach(), points.size(0))
    return losses
