// Package front is the room of how callers come in: http, resp, and the table of their errors,
// problem. The folder itself has no code.
//
// Every call of any protocol passes the same steps: who may call (program/access), limits and a
// budget of memory that all calls share (program/budget), decoding, package filter/batch, and an
// answer. So what holds for one protocol holds for all, and callers of different ones share filters
// exactly once.
//
//   - http is the interface of openapi.yaml: one gate (call.go), through which each route passes,
//     handlers of a few lines, and streams of any length in constant memory (stream.go). http/status is the
//     page for people, on program/page.
//   - resp is the interface for Redis clients; its doc.go says where to begin.
//   - problem has one table: from the cause of an error to its code, and from there to what HTTP, RESP
//     and a command say. A call that is refused with 4xx or 507 has remembered nothing.
//
// It knows no store: a front calls the engine. It opens no sockets: the server does, with
// program/httpserver and program/listen.
package front
