"""Models of graphs and molecules: a batch is the union of several graphs, with other numbers of nodes and edges each time."""

import torch
import torch.nn.functional as F

from cases import Training, case, changed


def graphs(index, count=4):
    from torch_geometric.data import Batch, Data

    found = []
    for each in range(count):
        nodes = 5 + (index + each) % 4 + each
        found.append(Data(x=torch.randn(nodes, 6), edge_index=torch.randint(0, nodes, (2, 2 * nodes + index % 3)), y=torch.randint(0, 3, (1,)),
                          edge_attr=torch.randn(2 * nodes + index % 3, 4)))
    return Batch.from_data_list(found)


class GraphClassifier(torch.nn.Module):
    """A network of PyTorch Geometric as its tutorials build it."""

    def __init__(self, body, pool, width):
        super().__init__()
        self.body, self.pool, self.head = body, pool, torch.nn.Linear(width, 3)

    def forward(self, data):
        return self.head(self.pool(self.body(data.x, data.edge_index), data.batch, data.num_graphs))


def of_graphs(network, data):
    return F.cross_entropy(network(data), data.y)


@case("torch-geometric", graphs, batches=4)
def graph_isomorphism_network():
    from torch_geometric.nn import GIN, global_add_pool

    return Training(GraphClassifier(GIN(6, 16, 2), global_add_pool, 16), of_graphs)


@case("torch-geometric", graphs, batches=4)
def graph_attention_network():
    from torch_geometric.nn import GAT, global_mean_pool

    return Training(GraphClassifier(GAT(6, 16, 2, heads=2, v2=True), global_mean_pool, 16), of_graphs)


@case("torch-geometric", graphs, batches=4)
def graph_sage():
    from torch_geometric.nn import GraphSAGE, global_max_pool

    return Training(GraphClassifier(GraphSAGE(6, 16, 2, dropout=0.1), global_max_pool, 16), of_graphs)


@case("torch-geometric", graphs, batches=4)
def graph_transformer():
    from torch_geometric.nn import Sequential, TransformerConv, global_mean_pool

    body = Sequential("x, edge_index", [(TransformerConv(6, 8, heads=2), "x, edge_index -> x"), torch.nn.ReLU()])
    return Training(GraphClassifier(body, global_mean_pool, 16), of_graphs)


@case("torch-geometric", graphs, batches=4)
def graph_of_edges():
    from torch_geometric.nn import EdgeConv, Sequential, global_max_pool

    body = Sequential("x, edge_index", [(EdgeConv(torch.nn.Linear(12, 16)), "x, edge_index -> x"), torch.nn.ReLU()])
    return Training(GraphClassifier(body, global_max_pool, 16), of_graphs)


@case("torch-geometric", lambda _: graph_of_papers(), batches=2)
def graph_autoencoder():
    from torch_geometric.nn import GAE, GCN

    return Training(GAE(GCN(6, 16, 2, 8)), lambda network, data: network.recon_loss(network.encode(data.x, data.edge_index), data.edge_index))


@case("torch-geometric", lambda _: graph_of_papers())
def graph_convolution_of_one_graph():
    from torch_geometric.nn import GCN

    return Training(GCN(6, 16, 2, 3), lambda network, data: F.cross_entropy(network(data.x, data.edge_index)[:20], data.y[:20]))


changed(graph_convolution_of_one_graph, "batches=[graph, graph]", batches=2)


def graph_of_papers():
    from torch_geometric.data import Data

    return Data(x=torch.randn(40, 6), edge_index=torch.randint(0, 40, (2, 120)), y=torch.randint(0, 3, (40,)))


def conformers(index):
    from torch_geometric.data import Batch, Data

    return Batch.from_data_list([Data(z=torch.randint(1, 9, (4 + (index + each) % 3,)), pos=torch.randn(4 + (index + each) % 3, 3),
                                      y=torch.randn(1)) for each in range(4)])


@case("torch-geometric", conformers, batches=4)
def schnet():
    from torch_geometric.nn import SchNet

    network = SchNet(hidden_channels=16, num_filters=16, num_interactions=2, num_gaussians=10, interaction_graph=all_pairs)
    return Training(network, lambda network, data: F.mse_loss(network(data.z, data.pos, data.batch).squeeze(1), data.y))


def all_pairs(pos, batch):
    same = (batch[:, None] == batch[None]) & ~torch.eye(batch.shape[0], dtype=torch.bool)
    edges = same.nonzero().T
    return edges, (pos[edges[0]] - pos[edges[1]]).norm(dim=1)


SMILES = ["CCO", "c1ccccc1O", "CC(=O)N", "CCN(CC)CC", "C1CCCCC1", "OCC(O)CO", "CC#N", "c1ccncc1"]


def molecules(index):
    import numpy as np
    from chemprop.data import MoleculeDatapoint, MoleculeDataset, collate_batch

    chosen = [SMILES[(index * 3 + each) % len(SMILES)] for each in range(4)]
    points = [MoleculeDatapoint.from_smi(smiles, np.array([float(torch.randn(()))])) for smiles in chosen]
    dataset = MoleculeDataset(points)
    return collate_batch([dataset[each] for each in range(len(points))])


@case("chemprop", molecules, batches=4)
def message_passing_of_molecules():
    from chemprop.models import MPNN
    from chemprop.nn import BondMessagePassing, MeanAggregation, RegressionFFN

    return MPNN(BondMessagePassing(d_h=16, depth=2), MeanAggregation(), RegressionFFN(input_dim=16, hidden_dim=16))


changed(message_passing_of_molecules, 'trainer={"num_training_batches": 20, "max_epochs": 5}',
        trainer={"num_training_batches": 20, "max_epochs": 5})


@case("torch", lambda index: {"words": torch.randint(0, 50, (20 + index % 5,)), "offsets": torch.tensor([0, 4, 9, 15]),
                              "labels": torch.randint(0, 3, (4,))}, batches=4)
def bags_of_words():
    network = torch.nn.ModuleDict({"words": torch.nn.EmbeddingBag(50, 16), "head": torch.nn.Linear(16, 3)})
    return Training(network, lambda network, batch: F.cross_entropy(network["head"](network["words"](batch["words"], batch["offsets"])), batch["labels"]))
