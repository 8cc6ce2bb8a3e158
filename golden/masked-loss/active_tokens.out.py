# golden: change syncs=0 hot=Tagger.loss
"""Token classification as BERT scripts write it: the mask comes from the attention mask, not from the labels."""
import torch
from torch import Tensor, nn


class Tagger(nn.Module):
    def __init__(self, width: int, num_labels: int):
        super().__init__()
        self.num_labels = num_labels
        self.classifier = nn.Linear(width, num_labels)

    def loss(self, logits: Tensor, labels: Tensor, attention_mask: Tensor) -> Tensor:
        loss_fct = nn.CrossEntropyLoss()
        active_loss = attention_mask.view(-1) == 1
        active_logits = torch.where(active_loss.unsqueeze(-1), logits.view(-1, self.num_labels), 0)
        active_labels = torch.where(active_loss, labels.view(-1), loss_fct.ignore_index)
        return loss_fct(active_logits, active_labels)

    def forward(self, hidden: Tensor, labels: Tensor, attention_mask: Tensor) -> Tensor:
        return self.loss(self.classifier(hidden), labels, attention_mask)


def cases(make):
    mask = make.mask((3, 5)).long().contiguous()
    yield Tagger(4, 3).to(make.device), make.tensor((3, 5, 4)), make.labels((3, 5), 3).contiguous(), mask


def probe(tagger, hidden, labels, attention_mask):
    return tagger(hidden, labels, attention_mask)
