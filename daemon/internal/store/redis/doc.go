package redis

// What is in Redis, all of it under urifilter:
//
//	urifilter:filters                hash: name of a filter -> entry (JSON)
//	                                 field ":format": the version of all this, 1
//	urifilter:registry:{urifilter:filters}
//	                                 string: tells this registry from one that was lost
//	urifilter:tombstones:{urifilter:filters}
//	                                 hash: entry of a filter that was dropped, or is being
//	                                 made -> what removes its keys, see package registry
//	urifilter:{<id>-<name>:<tag>:<i>}
//	                                 string: stripe i of a filter's bit-map: 8 bytes of
//	                                 head, then the stripe's bytes as in docs/format.md;
//	                                 what is missing at the end is zero. tag tells apart
//	                                 the filters that had the name; those that earlier
//	                                 versions made have none
//	urifilter:{<id>-<name>:<tag>:<i>}:<d>:<n>
//	                                 string: a stripe on its way into the one above, of
//	                                 call n of daemon d
//	urifilter:{<id>-<name>:<tag>}:unacknowledged
//	                                 set: items that were set, and no caller was told of,
//	                                 see package bitmap
//	urifilter:unacknowledged         string: counts what is put into these sets
//	urifilter:{<id>:<tag>:<g>}       string: the witness of group g of a timing or exact filter, see
//	                                 package forgotten; tag tells apart the filters that had the id
//	urifilter:{<id>:<tag>:<g>}<key>  string, until it expires: an item, key being the 16
//	                                 bytes of its hash
//	urifilter:{<id>:<tag>:<g>}<n>    set: items of an exact filter, Lo of their hashes as numbers;
//	                                 n is the node, see package exact; a string: the node is split
//	urifilter:{<id>:<tag>:<g>}:forgotten
//	                                 list: the last items of the group that were forgotten, of as
//	                                 many as the witness counts, see package forgotten
//	urifilter:{<id>:<tag>:<g>}:leases, :reservations, :reserved:<id>
//	                                 hash, sorted set, hash: who holds which items of the group, and
//	                                 until when, see package leases
//	urifilter:{<id>:<tag>:<g>}:followed
//	                                 string: how many a daemon had followed before data was lost
//	urifilter:ids                    hash: ":highest" -> the highest id that a filter was
//	                                 given; name of a filter -> the id that it was given
//	urifilter:quarantine:{urifilter:filters}
//	                                 hash: name and moment -> entry that could not be read
//	                                 and was dropped
//	urifilter:members                hash: daemon -> its heartbeat
//	urifilter:version:{urifilter:filters}
//	                                 string: counts the clears of filters
//	urifilter:followed               hash: daemon -> the version of the registry that it
//	                                 serves, see clear.go
//	urifilter:incarnation            string: changes whenever data was found lost
//	urifilter:stopped:<incident>     set: the daemons that send no batches until these
//	                                 servers, in this incarnation, are resynced
//	urifilter:healed:<incident>      set: the daemons that have put back what they know
//	urifilter:damaged:<incident>     set: the filters that a daemon has not put back, as it found
//	                                 a key of another program
//	urifilter:witness:{<n>}:<daemon> string: on each master, while the daemon resyncs
//	urifilter:abandoned:<daemon>     string: the others have resynced without this daemon,
//	                                 see package insync
//
// The braces are hash tags: in a cluster a filter's stripes spread over the nodes, and
// a stripe and its temporary key share one.
