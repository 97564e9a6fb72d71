// Prints the shard of each queue: go run shards/main.go COUNT QUEUE... The rule: docs/how-to/shards.md.
package main

import (
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
)

func shardOf(queue string, count uint32) uint32 {
	tag, _, _ := strings.Cut(queue, "--")
	tag = strings.TrimSuffix(tag, ".fifo")
	return (crc32.ChecksumIEEE([]byte(tag)) >> 16 & 0x7fff) % count
}

func main() {
	count, err := strconv.ParseUint(os.Args[1], 10, 32)
	if err != nil {
		panic(err)
	}
	for _, queue := range os.Args[2:] {
		fmt.Println(shardOf(queue, uint32(count)))
	}
}
