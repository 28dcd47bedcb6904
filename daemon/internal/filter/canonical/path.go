package canonical

import "bytes"

// appendPath appends a path. It treats escapes, then parameters that are dropped, then dot
// segments, in this order, so that a second pass changes nothing.
func (c *Canonicalizer) appendPath(dst, path []byte, by Rule) []byte {
	if by.Form == Safe {
		c.path = appendEscaped(c.path[:0], path, unreserved, pathBytes)
		return appendSegments(dst, c.path)
	}
	c.path = appendEscaped(c.path[:0], path, undoneInPath, pathBytes)
	if bytes.IndexByte(c.path, ';') >= 0 {
		c.path = dropPathParams(c.path, by.Drop)
	}
	return appendSegments(dst, c.path)
}

// dropPathParams removes the parameters (;name=value) that drop names. It overwrites path.
func dropPathParams(path []byte, drop *Names) []byte {
	kept := path[:0]
	for len(path) > 0 {
		end := 1
		for end < len(path) && path[end] != ';' && path[end] != '/' {
			end++
		}
		piece := path[:end]
		path = path[end:]
		if piece[0] == ';' {
			name, _, _ := bytes.Cut(piece[1:], []byte("="))
			if drop.has(name) {
				continue
			}
		}
		kept = append(kept, piece...)
	}
	return kept
}

// appendSegments appends a path without its dot segments, as RFC 3986, section 5.2.4 describes.
// The path begins with a slash or is empty; for an empty path it appends "/".
func appendSegments(dst, path []byte) []byte {
	if len(path) == 0 {
		return append(dst, '/')
	}
	if !bytes.Contains(path, []byte("/.")) {
		return append(dst, path...)
	}
	start := len(dst)
	for len(path) > 0 {
		end := bytes.IndexByte(path[1:], '/') + 1
		if end == 0 {
			end = len(path)
		}
		segment := path[1:end]
		path = path[end:]
		switch string(segment) {
		case ".":
		case "..":
			if i := bytes.LastIndexByte(dst[start:], '/'); i >= 0 {
				dst = dst[:start+i]
			}
		default:
			dst = append(append(dst, '/'), segment...)
			continue
		}
		if len(path) == 0 { // a dot segment at the end names a folder
			dst = append(dst, '/')
		}
	}
	return dst
}
