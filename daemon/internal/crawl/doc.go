// Package crawl crawls: from seeds it follows links breadth first, until enough pages are stored or
// no link is left, and stores the pages, their index and the graph of their links in a folder. If
// it is killed at any moment, it can continue as if nothing had happened. Package frontier decides
// what is queued, and when a host is called; package fetch, how a URI is fetched.
//
// It promises exactly as many pages as were asked for: there are that many slots, which are leased;
// page, edges and the links that were found are committed together, so that a crash costs a fetch and
// never a page. A host that cannot be had now is held, and its URIs stay in the queue.
//
//   - visit.go is what becomes of one URI; frontier is the durable queue.
//   - links, charset: what is in a page, read as browsers read it; pages, warc, graph: what is stored
//     of it, and what can be told of that; form: logging in.
//
// Begin with Run, then visit.go.
package crawl
