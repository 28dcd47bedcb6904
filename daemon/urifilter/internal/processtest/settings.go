package processtest

import (
	"fmt"
	"strings"
)

// WithArchive returns the environment of a daemon, or a command, with an archive. The bit-map
// of uri has two stripes.
func WithArchive(uri string) []string {
	return []string{"URIFILTER_MONGODB_URI=" + uri, fmt.Sprintf("URIFILTER_FILTERS=[{id: 1, name: uri, capacity: %d}, {id: 2, name: ip, capacity: 1000}]", URICapacity)}
}

// OnRedis returns the environment of a daemon whose store is Redis, at the given addresses.
func OnRedis(addrs ...string) []string {
	return []string{"URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS=" + strings.Join(addrs, ","),
		fmt.Sprintf(`URIFILTER_FILTERS=[{id: 1, name: uri, capacity: %d}]`, URICapacity)}
}
