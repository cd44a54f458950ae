"""A device: decides whether it takes part, and if so trains on what it has."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fadewise.flower import DeviceAgent, gains_of_trace
from fadewise.flower.client import Participation, agent_of, device_of
from fadewise.flower.messages import order_of
from scheduled.fleet import EXPERIMENT


def agent(context: Context, run: str) -> DeviceAgent:
    """Decides for the device that this node is."""
    trace = context.node_config.get("trace")
    gain = gains_of_trace(str(trace), repeat=True) if trace else None  # ← your channel: any function of the round
    return agent_of(context, run, EXPERIMENT, gain)


app = ClientApp()
participation = Participation(app, agent)


@app.train(mods=[participation.mod])
def train_on_device(message: Message, context: Context) -> Message:
    """As for FedAvg: the trained model goes back. It is called only if the device takes part."""
    from scheduled.task import minibatches, network, train  # with torch, which a device that stays out never loads

    device = device_of(context, EXPERIMENT.devices)
    model = network()
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    loss = train(model, minibatches(device, order_of(message).round))
    content = {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"train_loss": loss})}
    return Message(RecordDict(content), reply_to=message)
