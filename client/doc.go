// Package client asks a urifilter daemon which items are new.
//
//	c, err := client.New("http://127.0.0.1:8000")
//	if err != nil {
//		return err
//	}
//	fresh, err := c.Filter(ctx, "uri", []string{"https://example.com/a", "https://example.com/b"})
//
// A [Client] is safe for concurrent use and keeps its connections for a minute each,
// so that it follows DNS and load balancers; make one and share it. Batches of a few
// hundred to a few thousand items are answered about as quickly as single items; the
// daemon accepts 100,000 items and 64 MiB a call unless its settings say otherwise.
// Every call is all or nothing: a list with an invalid item is refused as a whole,
// and nothing of it is remembered. With [SkipInvalid] the daemon skips invalid items
// instead, counts them and describes the first ones.
//
// # Several daemons
//
// Daemons that share one Redis give the same answers. A client that is made with
// several addresses calls one of them until it fails, and then the next. Daemons with
// embedded stores each have their own memory and cannot replace each other.
//
// # What a repeated call means
//
// The client repeats a call, at another server or after a pause, for as long as
// [WithPatience] says, if it is certain that nothing of it was done: no connection was
// established, the request was not sent completely, or the daemon answered that it is
// not ready. Check and the other calls that only look are repeated in any case.
//
// Filter remembers. Its outcome is unknown if the answer is lost on the way (a broken
// connection, a timeout), or is a 5xx that does not promise that nothing was
// remembered, such as outcome_unknown: the daemon may have remembered the items, and
// may answer a second call that they are duplicates, although no answer said that they
// are new. [InDoubt] is true for such an error. [WithInDoubt] chooses what happens to
// such a call:
//
//	DoubtError  the call fails, and the caller decides      (default)
//	DoubtSeen   it is repeated: no item is new twice, but some may be lost, because
//	            every caller is told that they are duplicates
//	DoubtNew    it is repeated, and all of its items are returned as new: none is
//	            missed, but some that were seen before are new again
//
// Forget and Near change the filter too, and are repeated in any case, because nothing is
// lost by that. If an answer was lost and no later attempt succeeds, [InDoubt] is true for
// their error as well.
//
// After outcome_unknown, Filter is repeated at the same server, which knows the items that
// it reported to nobody; the other servers learn of them within a second.
//
// A stream ([Client.FilterLines]) is repeated only while nothing of it was sent. An
// [*Error] with a 4xx status is certain, and final: nothing was remembered.
//
// # Streams
//
// A stream is remembered block by block, so after an error in the middle a part of it
// is remembered. The daemon then ends the answer with the trailer Urifilter-Error, which
// has the problem, and the client returns it as an [*Error] like any other. If a proxy
// drops trailers, the answer lacks its totals, which is an error too: a part is never
// taken for the whole.
//
// # Logging
//
// Calls return what concerns them. A problem of a filter (it holds more items than it was
// made for, so that new items are called seen) is logged once, to slog.Default() or the
// logger of [WithLogger].
//
// # Errors
//
// An answer of the daemon that is not a success is an [*Error], whose ErrorCode is a stable
// word to branch on; a call that got no answer is a [*ConnectionError]. Neither shows a
// token or an item.
//
// The package uses the standard library only and does not import the daemon. Its
// types are also the wire shapes that the daemon answers with.
package client
