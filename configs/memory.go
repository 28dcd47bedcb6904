package configs

// MinMemory is the smallest limits.memory_bytes.
const MinMemory = 64 * MiB

// Memory is how limits.memory_bytes is divided. All zero: there is no limit.
type Memory struct {
	Total   uint64
	Bodies  uint64 // of requests
	Filters uint64 // the rest
	// Work is for batches while they are carried out: a part of what the daemon itself needs besides.
	Work uint64
}

// Memory divides the memory of a process that may have so many bytes; 0: that is not known.
func (l Limits) Memory(allowed uint64) Memory {
	total := uint64(l.MemoryBytes)
	if total == 0 {
		total = allowed - allowed/4
	}
	if total == 0 {
		return Memory{Bodies: uint64(l.bodies())}
	}
	bodies := min(uint64(l.bodies()), total/4)
	return Memory{Total: total, Bodies: bodies, Filters: total - bodies, Work: bodies / 2}
}

func (l Limits) bodies() Size {
	if l.HeldBytes > 0 {
		return l.HeldBytes
	}
	return max(4*l.BodyBytes, 256*MiB)
}
