// The library's contract for C++20: owners, spans and results over mlc.h, whose table is all that this header uses. What
// mlc.h says holds here too; its constants (MLC_F32, MLC_CANCELLED, MLC_VERIFY_FULL, ...) are those of this header.
//
//   auto model = mlrt::Model::open("net.mlc", {.trust_keys = {"publisher.pub.pem"}});
//   if (!model) return report(model.error().text());
//   auto session = model->session({.threads = 4});
//   if (!session) return report(session.error().text());
//   auto out = session->run({mlrt::Input("image", pixels, {1, 1, 28, 28})}, {.stop = token});
//   if (!out) return report(out.error().text());
//   auto logits = out->values<float>("logits");      // Result<std::span<const float>>
//
// Errors are values. A Result holds what was asked for or the Error, and must be looked at. Nothing here throws, and all of
// it works with -fno-exceptions; `value()`, `*` and `->` of an error, and `error()` of a value, are mistakes in the program and
// end it with a sentence. Memory that the wrapper itself needs (names, lists of tensors) comes from operator new.
//
// Owners (Model, Session, Pool, CancelSource, File) can be moved but not copied. What a session needs lives as long as the
// session: it keeps its model and its pool, whichever of the owners goes first; a model keeps its reader and its services.
// Memory that a container is read from, allocators, and a CancelSource while a run uses it, are kept by the caller.
//
// Views (View, spans and texts that are handed out) belong to the handle they came from: those of an output until the
// next run of its session, those of assets and golden inputs as long as the model or one of its sessions.
//
// Functions that are handed in (services, readers, what run_async calls) throw nothing: they are called from C.
//
// Threads: as in mlc.h. A Model, a Pool and a CancelSource may be used by several threads, a Session by one at a time.
//
// Applications include this file. Its parts, which lie beside it: mlc/result.hpp (errors and results), tensor.hpp, service.hpp (what models ask
// of the application), open.hpp, run.hpp (cancelling, pools), session.hpp, model.hpp.
#pragma once

#include "mlc/model.hpp"
#include "mlc/open.hpp"
#include "mlc/result.hpp"
#include "mlc/run.hpp"
#include "mlc/service.hpp"
#include "mlc/session.hpp"
#include "mlc/tensor.hpp"
