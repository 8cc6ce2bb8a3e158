import torch
import torch.nn.functional as F


class Data:
    """One graph: features, edges, classes and who belongs to which split."""

    def __init__(self, num_nodes=120, num_features=16, num_classes=4, num_edges=400):
        generator = torch.Generator().manual_seed(12345)
        self.y = torch.randint(num_classes, (num_nodes,), generator=generator)
        self.x = torch.rand(num_nodes, num_features, generator=generator)
        self.x[torch.arange(num_nodes), self.y] += 1.0
        edges = torch.randint(num_nodes, (2, num_edges), generator=generator)
        loops = torch.arange(num_nodes).repeat(2, 1)
        self.edge_index = torch.cat([edges, edges.flip(0), loops], dim=1)
        split = torch.rand(num_nodes, generator=generator)
        self.train_mask = split < 0.4
        self.val_mask = (split >= 0.4) & (split < 0.7)
        self.test_mask = split >= 0.7
        self.num_classes = num_classes

    def to(self, device):
        for name, value in list(self.__dict__.items()):
            if torch.is_tensor(value):
                setattr(self, name, value.to(device))
        return self


class GCNConv(torch.nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = torch.nn.Linear(in_channels, out_channels, bias=False)
        self.bias = torch.nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        row, col = edge_index
        deg = torch.zeros(x.size(0), device=x.device).index_add_(0, col, torch.ones_like(col, dtype=x.dtype))
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float('inf')] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]

        x = self.lin(x)
        out = torch.zeros_like(x).index_add_(0, col, norm.view(-1, 1) * x[row])
        return out + self.bias


class GCN(torch.nn.Module):
    def __init__(self, in_channels, hidden_channels, out_channels):
        super().__init__()
        self.conv1 = GCNConv(in_channels, hidden_channels)
        self.conv2 = GCNConv(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, edge_index).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv2(x, edge_index)
        return F.log_softmax(x, dim=1)


device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')
data = Data().to(device)
model = GCN(data.x.size(1), 16, data.num_classes).to(device)
optimizer = torch.optim.Adam([
    dict(params=model.conv1.parameters(), weight_decay=5e-4),
    dict(params=model.conv2.parameters(), weight_decay=0)
], lr=0.01)  # Only perform weight-decay on first convolution.


def train():
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)


@torch.no_grad()
def test():
    model.eval()
    pred = model(data.x, data.edge_index).argmax(dim=-1)

    accs = []
    for mask in [data.train_mask, data.val_mask, data.test_mask]:
        accs.append(int((pred[mask] == data.y[mask]).sum()) / int(mask.sum()))
    return accs


best_val_acc = test_acc = 0
for epoch in range(1, 201):
    loss = train()
    train_acc, val_acc, tmp_test_acc = test()
    if val_acc > best_val_acc:
        best_val_acc = val_acc
        test_acc = tmp_test_acc
    print(f'Epoch: {epoch:03d}, Loss: {loss:.4f}, Train: {train_acc:.4f}, Val: {val_acc:.4f}, Test: {test_acc:.4f}')
