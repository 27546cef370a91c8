// An event as one JSON object, for people, agents and exports. Uses the heap: not for hooks, a library of
// its own (smeltr_event_json).
//
//   {"ts_mono_ns":12,"seq":3,"pid":70,"tid":70,"source":"Hook","kind":"VulkanCbScheduled","cb_id":1,"queue_id":2}
//
// Envelope first, then the fields under their names of kinds.def, in that order. OPTIONAL ones are left out
// when zero or empty. Numbers are exact integers, enums their names, lists arrays of objects or values,
// and user fields (Attribute) one object. Malformed UTF-8 becomes U+FFFD, NaN and infinities null.
// A kind this build does not know has its number and its bytes in hex:
// "kind":"Kind#901","payload_hex":"00ff".
#pragma once

#include <string>
#include <string_view>

#include "event/event.h"

namespace smeltr::event {

// Appends the object, without a newline.
void AppendJson(const Event& event, std::string& out);

// Appends `text` as a JSON string, quotes included.
void AppendJsonText(std::string_view text, std::string& out);

}  // namespace smeltr::event
