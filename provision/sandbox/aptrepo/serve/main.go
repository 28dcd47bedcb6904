// Serve serves the files of a folder over HTTP, until it is killed: the package
// repository of a sandbox, which must outlive the command that made it.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"time"
)

func main() {
	dir := flag.String("dir", "", "the folder")
	listen := flag.String("listen", "", "address and port; another port when it is taken")
	said := flag.String("said", "", "file that is given the address when it is listened on")
	flag.Parse()
	if err := serve(*dir, *listen, *said); err != nil {
		log.Fatal(err)
	}
}

func serve(dir, listen, said string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		host, _, splitErr := net.SplitHostPort(listen)
		if splitErr != nil {
			return splitErr
		}
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			return err
		}
	}
	if err := os.WriteFile(said+".new", []byte(listener.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(said+".new", said); err != nil {
		return err
	}
	server := &http.Server{Handler: http.FileServerFS(root.FS()), ReadHeaderTimeout: time.Minute}
	return server.Serve(listener)
}
