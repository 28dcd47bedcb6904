// Package client asks a urifilter daemon which items are new.
//
//	c, err := client.New("http://127.0.0.1:8000")
//	if err != nil {
//		return err
//	}
//	fresh, err := c.Filter(ctx, "uri", []string{"https://example.com/a", "https://example.com/b"})
//
// A [Client] is safe for concurrent use and keeps its connections; make one and
// share it. Batches of some hundred to some thousand items are answered about as
// quickly as single ones; the daemon takes 100,000 items and 64 MiB a call unless
// its settings say otherwise. Every call is all or nothing: a list with a faulty
// item is refused as a whole, and nothing of it is remembered. With [SkipInvalid] the
// daemon skips faulty items instead, counts them and describes the first.
//
// # Several daemons
//
// Daemons that share one Redis give the same answers. A client that is made with the
// addresses of several calls one of them until it fails, and then the next. Daemons
// with embedded stores each have a memory of their own and are no substitutes for
// each other.
//
// # What a repeated call means
//
// A call is repeated by itself, at another server or after a pause, as long as
// [WithPatience] says, when it is certain that nothing of it was done: no connection
// came to be, the request never left as a whole, or the daemon answered that it is not
// ready. Check and the calls that only look are repeated in any case.
//
// Filter remembers. Its outcome is unknown when the answer is lost on the way (a
// connection that is cut, a timeout), or is a 5xx that does not promise that nothing was
// remembered, such as outcome_unknown: the daemon may have remembered the items, and
// called again may call them duplicates, although no answer said that they are new.
// [InDoubt] is true for such an error. What becomes of such a call is a choice,
// [WithInDoubt]:
//
//	DoubtError  the call fails, and the caller decides      (default)
//	DoubtSeen   it is repeated: no item is new twice, some may be lost, as everybody is
//	            told that they are duplicates
//	DoubtNew    it is repeated, and all of its items are returned as new: none is
//	            missed, some that were seen before are new again
//
// Forget and Near change the filter too, and are repeated in any case, as nothing is lost by
// it. If an answer was lost and no later attempt succeeds, [InDoubt] is true of their error
// as well.
//
// After outcome_unknown Filter is repeated at the same server, which knows which items it
// told nobody of; the others learn of them within a second.
//
// A stream ([Client.FilterLines]) is repeated only while nothing of it was sent. An
// [*Error] with a 4xx status is certain, and final: nothing was remembered.
//
// # Streams
//
// A stream is remembered block by block, so an error in the middle leaves a part of it
// done. The daemon then ends the answer with the trailer Urifilter-Error, which has the
// problem, and the client returns it as an [*Error] like any other. Where a proxy drops
// trailers, the answer lacks its totals, and is an error too: a part is never taken for
// the whole.
//
// # Logging
//
// Calls return what concerns them. What concerns a filter (that it holds more items than it
// was made for, so that new items are called seen) is logged once, to slog.Default() or the
// logger of [WithLogger].
//
// # Errors
//
// An answer of the daemon that is no success is an [*Error], whose ErrorCode is a stable
// word to branch on; a call that got no answer is a [*ConnectionError]. Neither shows a
// token or an item.
//
// The package uses the standard library only and does not import the daemon. Its
// types are also the wire shapes that the daemon answers with.
package client
