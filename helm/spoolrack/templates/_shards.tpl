{{/* Shards: servers that share the queues by their names. Number N is the pod N of the StatefulSet. */}}

{{- define "spoolrack.hasShards" -}}
{{- if gt (int .Values.shards) 1 -}}true{{- end -}}
{{- end -}}

{{/* The name of a server's pod, to clients in the cluster. Call with (dict "root" $ "number" 0), or "$(POD_INDEX)" in a pod. */}}
{{- define "spoolrack.podHost" -}}
{{- $full := include "spoolrack.fullname" .root -}}
{{- printf "%s-%v.%s-headless.%s.svc" $full .number $full .root.Release.Namespace -}}
{{- end -}}

{{/* The URL by which clients in the cluster reach the queues: the addresses of all shards, in order. */}}
{{- define "spoolrack.url" -}}
{{- $scheme := ternary "grpcs" "grpc" (eq (include "spoolrack.hasTls" .) "true") -}}
{{- if include "spoolrack.hasShards" . -}}
{{- $addresses := list -}}
{{- range $number := until (int .Values.shards) -}}
{{- $addresses = append $addresses (printf "%s:50051" (include "spoolrack.podHost" (dict "root" $ "number" $number))) -}}
{{- end -}}
{{- printf "%s://%s" $scheme (join "," $addresses) -}}
{{- else -}}
{{- printf "%s://%s:%d" $scheme (include "spoolrack.host" .) (int .Values.service.grpcPort) -}}
{{- end -}}
{{- end -}}

{{/* The names of the claims, one for each server, between commas. The StatefulSet knows those of shards by these names. */}}
{{- define "spoolrack.claims" -}}
{{- if include "spoolrack.hasShards" . -}}
{{- $names := list -}}
{{- range $number := until (int .Values.shards) -}}
{{- $names = append $names (printf "messages-%s-%d" (include "spoolrack.fullname" $) $number) -}}
{{- end -}}
{{- join "," $names -}}
{{- else -}}
{{- include "spoolrack.claimName" . -}}
{{- end -}}
{{- end -}}

{{/*
Refuses another number of shards than that of the claims in the cluster: a queue's name says its shard by that
number. Without a cluster nothing is looked up, and each server refuses to start as another shard than its root.
*/}}
{{- define "spoolrack.checkShards" -}}
{{- $full := include "spoolrack.fullname" . -}}
{{- $wanted := int .Values.shards -}}
{{- range $name := list $full (printf "messages-%s-0" $full) -}}
{{- $claim := lookup "v1" "PersistentVolumeClaim" $.Release.Namespace $name -}}
{{- if $claim -}}
{{- $annotations := default dict $claim.metadata.annotations -}}
{{- $made := int (default "1" (get $annotations "spoolrack/shards")) -}}
{{- if ne $made $wanted -}}
{{- fail (printf "shards: the values say %d, and the claim %s was made for %d. Queues would be looked for on other servers: the number can't be changed in place. Install another release, and move the queues there by export and import, as docs/how-to/another-number-of-shards.md tells" $wanted $name $made) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if include "spoolrack.hasShards" . -}}
{{- if semverCompare "<1.28.0-0" .Capabilities.KubeVersion.Version -}}
{{- fail (printf "shards: pods learn their number by a label that Kubernetes sets from 1.28 on, and this cluster has %s" .Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{- range $queue, $settings := .Values.queues -}}
{{- with $settings -}}
{{- if .deadLetterQueue -}}
{{- $tag := include "spoolrack.tag" $queue -}}
{{- if ne $tag (include "spoolrack.tag" .deadLetterQueue) -}}
{{- fail (printf "queues.%s: its deadLetterQueue %s may be on another shard. Queues with one beginning up to \"--\" are on one: call it %s--%s" $queue .deadLetterQueue $tag (.deadLetterQueue | trimPrefix $tag | trimAll ".-_")) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The part of a queue's name that says its shard. */}}
{{- define "spoolrack.tag" -}}
{{- first (splitList "--" .) | trimSuffix ".fifo" -}}
{{- end -}}

{{/*
The number of a queue's shard: bits 16 to 30 of the CRC-32 of its tag, modulo the number of shards, as docs/how-to/shards.md has it. The
register is a list of booleans, the lowest bit first: `ne` is their exclusive or. Call with (dict "root" $ "queue" "jobs").
*/}}
{{- define "spoolrack.shardOf" -}}
{{- $tag := include "spoolrack.tag" .queue -}}
{{- $polynomial := list 5 8 9 15 19 20 21 23 24 26 27 29 30 31 -}}
{{- $register := list -}}
{{- range until 32 -}}{{- $register = append $register true -}}{{- end -}}
{{- range $at := until (len $tag) -}}
{{- $byte := int (index $tag $at) -}}
{{- range until 8 -}}
{{- $carry := ne (first $register) (eq (mod $byte 2) 1) -}}
{{- $byte = div $byte 2 -}}
{{- $shifted := append (rest $register) false -}}
{{- $register = list -}}
{{- range $bit, $is := $shifted -}}
{{- $register = append $register (ne $is (and $carry (has $bit $polynomial))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $hash := 0 -}}
{{- range $bit := untilStep 30 15 -1 -}}
{{- $hash = add (mul $hash 2) (ternary 0 1 (index $register $bit)) -}}
{{- end -}}
{{- mod $hash (int .root.Values.shards) -}}
{{- end -}}
