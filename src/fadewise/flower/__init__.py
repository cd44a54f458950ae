"""The same policy on real devices: each decides for itself, the server draws, weighs and keeps the books.

`DeviceAgent` and `Round` know nothing of any network and need NumPy only. `strategy` and `client` put
them on Flower, which they need (`pip install 'fadewise[flower]'`): one for the ServerApp, one for the ClientApp.
"""

from fadewise.flower.agent import DeviceAgent as DeviceAgent
from fadewise.flower.answers import Answer as Answer
from fadewise.flower.gains import UploadTimes as UploadTimes
from fadewise.flower.gains import gain_of_rate as gain_of_rate
from fadewise.flower.gains import gains_of_channel as gains_of_channel
from fadewise.flower.gains import gains_of_trace as gains_of_trace
from fadewise.flower.rounds import Books as Books
from fadewise.flower.rounds import Closed as Closed
from fadewise.flower.rounds import Delivery as Delivery
from fadewise.flower.rounds import Record as Record
from fadewise.flower.rounds import Round as Round
from fadewise.flower.rules import Rules as Rules
