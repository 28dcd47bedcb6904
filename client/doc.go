// Package client asks a urifilter daemon which items are new.
//
//	c, err := client.New("http://127.0.0.1:8000")
//	fresh, err := c.Filter(ctx, "uri", []string{"https://example.com/a", "https://example.com/b"})
//
// A [Client] is safe for concurrent use and keeps its connections; make one and
// share it. Batches of some hundred to some thousand items are answered about as
// quickly as single ones; the daemon takes 100,000 items and 64 MiB a call unless
// its settings say otherwise. Every call is all or nothing: a list with a faulty
// item is refused as a whole, and nothing of it is remembered.
//
// # What a repeated call means
//
// Filter remembers. When a call fails after its bytes were sent (a timeout, a
// connection cut, a 5xx answer), the daemon may have remembered the items although
// the answer that called them new was lost; asked again, it calls them duplicates.
// The client therefore never repeats a filter call by itself, except where the
// transport knows that no byte of it was written. A caller who repeats such a call
// chooses to rather miss an item than to see one twice; a caller who must miss
// none treats all items of the failed batch as new. An [*Error] with a 4xx status
// is certain: nothing of that batch was remembered. Check does not remember and
// may be repeated freely.
//
// The package uses the standard library only and does not import the daemon. Its
// types are also the wire shapes that the daemon answers with.
package client
