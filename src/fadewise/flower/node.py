"""Nodes with their ClientApp in the same process: for rehearsals, tests and studies of large fleets. Needs flwr.

    python -m fadewise.flower.node --superlink 127.0.0.1:8000 --app my_app.client_app:app --devices 0-5 \
        --node-config 'state="state"'

A SuperNode looks for messages every three seconds and starts a process for each. That keeps apps apart and costs
seconds a message. Here a thread is a node, it looks every so many milliseconds, and the ClientApp stays loaded, one
for all threads. What goes over the network is what Flower's own SuperNode sends: its Fleet connection is used.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import threading
import time
from collections.abc import Callable
from logging import WARNING

from flwr.app import Context, Message, RecordDict
from flwr.app.error import Error
from flwr.app.user_config import UserConfig
from flwr.clientapp import ClientApp
from flwr.common.config import get_fused_config_from_fab, parse_config_args
from flwr.common.constant import ErrorCode
from flwr.supercore import log
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supercore.run import RunNotRunningException
from flwr.supernode.fleet_http_connection import http_request_response

from fadewise.errors import FadewiseError


def serve(superlink: str, app: ClientApp, config: UserConfig, poll_s: float, stop: Callable[[], bool]) -> None:
    """A node over plain HTTP, until `stop` says so."""
    runs: dict[int, UserConfig] = {}
    with http_request_response(superlink, insecure=True) as connection:
        node, receive, send, get_run, get_fab, pull_object, push_object, confirm = connection

        def answer() -> bool:
            """Answers a message, if there is one."""
            received = receive()
            if received is None:
                return False
            head, tree = received
            run = head.metadata.run_id
            if run not in runs:
                info = get_run(run)
                runs[run] = get_fused_config_from_fab(get_fab(info.fab_hash, run).content, info)
            contents = pull_objects(
                [part.object_id for part in iterate_object_tree(tree)],
                pull_object_fn=lambda name: pull_object(run, name),
                initial_backoff=poll_s,
            )
            message = inflate_object_from_contents(head.metadata.message_id, contents)
            assert isinstance(message, Message)
            message.metadata.__dict__["_message_id"] = head.metadata.message_id
            confirm(run, head.metadata.message_id)
            began = time.monotonic()
            reply = _reply(app, message, Context(run, node, config, RecordDict(), runs[run]))
            reply.metadata.__dict__["_message_id"] = reply.object_id
            with no_object_id_recompute():
                objects = get_all_nested_objects(reply)
                wanted, session = send(reply, get_object_tree(reply), time.monotonic() - began)
                for name in wanted:
                    push_object(run, session, name, objects[name].deflate())
            return True

        while not stop():
            try:
                if not answer():
                    time.sleep(poll_s)
            except RunNotRunningException:
                continue  # the run that asked has ended
            except Exception as error:  # as with a SuperNode, the message is lost and the node goes on
                log(WARNING, "device %s: an exchange has failed: %s", config["device"], error)
                time.sleep(poll_s)


def _reply(app: ClientApp, message: Message, context: Context) -> Message:
    """What the app answers, or why it does not."""
    try:
        return app(message, context)
    except Exception as error:  # whatever an app raises, its node goes on
        log(WARNING, "%s: %s", type(error).__name__, error)
        reason = f"{type(error).__name__}: {error}"
        return Message(Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--superlink", required=True, help="its address, host:port")
    parser.add_argument("--app", required=True, help="the ClientApp, as module:name")
    parser.add_argument("--devices", required=True, help="the devices' numbers, as 0-5 or 3")
    parser.add_argument("--node-config", default="", help="as of flower-supernode, for every node; device is added")
    parser.add_argument("--poll", type=float, default=0.05, help="seconds between two looks for messages")
    arguments = parser.parse_args()
    module, _, name = arguments.app.partition(":")
    sys.path.append("")
    try:
        app = getattr(importlib.import_module(module), name or "app")
    except (ImportError, AttributeError, ValueError, FadewiseError) as error:
        parser.error(f"--app is {arguments.app!r}; it must be a module and its ClientApp, as my_app:app ({error})")
    first, _, last = arguments.devices.partition("-")
    try:
        devices = range(int(first), int(last or first) + 1)
    except ValueError:
        parser.error(f"--devices is {arguments.devices!r}; it must be as 0-5 or 3")
    config = parse_config_args([arguments.node_config] if arguments.node_config else None)
    nodes = [
        threading.Thread(
            target=serve,
            args=(arguments.superlink, app, {**config, "device": device}, arguments.poll, lambda: False),
            daemon=True,
        )
        for device in devices
    ]
    for node in nodes:
        node.start()
    try:
        for node in nodes:
            node.join()
    except KeyboardInterrupt:  # from a person, or from Flower where the SuperLink does not let a node in
        sys.exit("stopped")


if __name__ == "__main__":
    main()
