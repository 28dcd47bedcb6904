//go:build !amd64

package items

func plainRun(body []byte, pos int, dst []span, most int) (count, end int) {
	return plainRunGo(body, pos, dst, most)
}
