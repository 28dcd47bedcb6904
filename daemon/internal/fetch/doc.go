// Package fetch fetches one URI, safely whatever the server does: nothing that a server sends
// makes it use more time, memory or disk than the request allows, or call an address that is
// not public. It has no queue, does not retry, ignores robots.txt and knows no politeness:
// these are tasks of its callers. (A request that a server answered by closing a kept connection
// is no failure yet: it is sent once more, after the caller was asked.)
//
// Every connection of the downloader and the crawler is made through guard, which knows which
// addresses may be called, proxies included; a test lists every place in the source that dials
// (TestWaysOut). Waiting for a host's turn is no time of the fetch (clock).
//
//   - uri is how browsers read URIs; body, decompression within bounds; robots, what robots.txt allows
//     and a cache; cookies, those of one job and site; proxies and socks, ways through others.
//   - lenient.go reads answers that browsers read and net/http refuses, where that is safe.
//
// docs/fetching.md has all that can go wrong, by name. Begin with Fetch in fetch.go.
package fetch
